import { useCell } from "../data/cell.ts";
import { Dialog } from "../parts/dialog.tsx";
import { SCREENS } from "../screens/index.ts";
import { isSheetShown, singleKeys } from "./keys.ts";

const KEYS: readonly (readonly [string, string])[] = [
  ["/", "search by any id or key"],
  ["j k", "next and previous row"],
  ["Enter", "open the row"],
  ["x", "select the row"],
  ["[ ]", "previous and next step"],
  ["p", "pause or resume live updates"],
  ["c", "copy the id"],
  ["t", "light or dark"],
  ["Esc", "close the dialog"],
  ["Ctrl+Enter", "confirm an action"],
  ["?", "show this list"],
];

export function KeySheet() {
  const isShown = useCell(isSheetShown);
  const setting = useCell(singleKeys);
  if (!isShown) return null;
  const goes = SCREENS.flatMap(({ key, title }) => (key ? [[`g ${key}`, `go to ${title}`] as const] : []));
  return (
    <Dialog title="Keys" close={() => isSheetShown.set(false)}>
      <dl class="keys">
        {[...goes, ...KEYS].map(([keys, does]) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input type="checkbox" checked={setting === "on"} onChange={() => singleKeys.set(setting === "on" ? "off" : "on")} /> Single-key
        shortcuts
      </label>
    </Dialog>
  );
}
