import type { ComponentChildren, FunctionComponent } from "preact";
import { useState } from "preact/hooks";
import { useTold } from "./page.tsx";

/** The functions that a dialog calls: `told` shows a result on the screen, and `close` closes the dialog. */
export interface Asker {
  told: (sentence: ComponentChildren) => void;
  close: () => void;
}

/**
 * The dialog and the result of the actions of a screen. `ask` opens a dialog, and `line` shows the dialog and the result of the last
 * action. `again` reloads the screen after an action.
 */
export function useActs(again: () => void) {
  const [dialog, open] = useState<((asker: Asker) => ComponentChildren) | undefined>();
  const { told, say, line } = useTold(again);
  return {
    ...{ told, say },
    ask: <Props extends object>(Dialog: FunctionComponent<Props>, props: Omit<Props, keyof Asker>) =>
      open(() => (asker: Asker) => <Dialog {...(props as Props)} {...asker} />),
    line: (
      <>
        {line}
        {dialog?.({ told, close: () => open(undefined) })}
      </>
    ),
  };
}
