import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "./icon.tsx";

interface DialogProps {
  title: string;
  close?: () => void;
  confirm?: () => void;
  children: ComponentChildren;
}

/** A modal dialog. Esc closes it if `close` is given; the focus returns to its former element. */
export function Dialog({ title, close, confirm, children }: DialogProps) {
  const box = useRef<HTMLDialogElement>(null);
  const name = useId();
  // Opens the dialog before the paint, because the next key may be Esc.
  useLayoutEffect(() => {
    const { activeElement } = document;
    const dialog = box.current;
    dialog?.showModal();
    return () => {
      // Closes the dialog first, because no element outside an open dialog can have the focus.
      dialog?.close();
      if (activeElement instanceof HTMLElement && activeElement !== document.body && activeElement.isConnected) activeElement.focus();
      else (document.querySelector<HTMLElement>("tr[data-current]") ?? document.getElementById("main"))?.focus();
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
      onKeyDown={(event) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        confirm?.();
      }}
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
