import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { onConfirm } from "../frame/router.tsx";
import { Icon } from "./text.tsx";

interface DialogProps {
  title: string;
  close?: () => void;
  confirm?: () => void;
  children: ComponentChildren;
}

/** The focused element and its parents. If no element is focused, the current row or the screen and its parents. */
function focusPath(): HTMLElement[] {
  const { activeElement, body } = document;
  const from = activeElement === body ? (document.querySelector("tr[data-current]") ?? document.getElementById("main")) : activeElement;
  const path: HTMLElement[] = [];
  for (let at = from as HTMLElement | null; at && at !== body; at = at.parentElement) path.push(at);
  return path;
}

let stopReturning = () => {};

/**
 * Returns the focus to the first element of the path that is still on the page. An action often removes its button some time later. Then
 * the focus moves to the nearest remaining parent of the button, unless the user has moved the focus.
 */
function returnFocus(path: readonly HTMLElement[]): void {
  const focus = () => {
    const to = path.find(({ isConnected }) => isConnected);
    if (to && to.tabIndex < 0) to.tabIndex = -1;
    to?.focus({ preventScroll: to !== path[0] });
  };
  focus();
  const watch = new MutationObserver(() => document.activeElement === document.body && focus());
  watch.observe(document.body, { childList: true, subtree: true });
  stopReturning();
  stopReturning = () => watch.disconnect();
}
for (const moved of ["keydown", "pointerdown"]) addEventListener(moved, () => stopReturning(), { capture: true });

/** A modal dialog. If `close` is set, Esc closes the dialog. After the dialog is closed, the previously focused element gets the focus. */
export function Dialog({ title, close, confirm, children }: DialogProps) {
  const box = useRef<HTMLDialogElement>(null);
  const name = useId();
  // Opens the dialog before the paint, because the user's next key may be Esc.
  useLayoutEffect(() => {
    stopReturning();
    const path = focusPath();
    const dialog = box.current;
    dialog?.showModal();
    return () => {
      // The dialog is closed before the focus moves, because no element outside an open dialog can have the focus.
      dialog?.close();
      returnFocus(path);
    };
  }, []);
  return (
    <dialog
      ref={box}
      aria-labelledby={name}
      onCancel={(event) => {
        event.preventDefault();
        close?.();
      }}
      onKeyDown={onConfirm(confirm)}
    >
      <div class="title">
        <h2 id={name}>{title}</h2>
        {close && (
          <button type="button" class="plain" onClick={close} aria-label="Close" title="Close (Esc)">
            <Icon name="close" />
          </button>
        )}
      </div>
      {children}
    </dialog>
  );
}
