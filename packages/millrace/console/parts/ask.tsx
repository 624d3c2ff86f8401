import type { ComponentChildren, FunctionComponent } from "preact";
import { useState } from "preact/hooks";
import { useKeys } from "../frame/keys.ts";
import { copied } from "./text.tsx";

/** The functions that a dialog calls: `told` shows a result on the screen, and `close` closes the dialog. */
export interface Asker {
  told: (sentence: ComponentChildren) => void;
  close: () => void;
}

/**
 * The dialog and the result of the actions of a screen. `ask` opens a dialog, and `line` shows the dialog and the result of the last
 * action, which is announced to screen readers. `again` reloads the screen after an action. `after` is shown after each result. The key `c`
 * copies `id`.
 */
export function useActs(again: () => void, { id, after }: { id?: string; after?: ComponentChildren } = {}) {
  const [dialog, open] = useState<((asker: Asker) => ComponentChildren) | undefined>();
  const [said, say] = useState<ComponentChildren>("");
  const told = (sentence: ComponentChildren) => {
    say([sentence, after]);
    again();
  };
  useKeys(id ? { c: () => void copied(id).then((isCopied) => isCopied && say("Id copied.")) } : {});
  return {
    ...{ told, say },
    ask: <Props extends object>(Dialog: FunctionComponent<Props>, props: Omit<Props, keyof Asker>) =>
      open(() => (asker: Asker) => <Dialog {...(props as Props)} {...asker} />),
    line: (
      <>
        <p class="told" role="status">
          {said}
        </p>
        {dialog?.({ told, close: () => open(undefined) })}
      </>
    ),
  };
}
