import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Icon } from "./icon.tsx";

interface DialogProps {
  title: string;
  close: () => void;
  /** What Ctrl+Enter does. */
  confirm?: () => void;
  children: ComponentChildren;
}

/** A dialog over the page: Esc closes it, and the focus goes back to where it was. */
export function Dialog({ title, close, confirm, children }: DialogProps) {
  const box = useRef<HTMLDialogElement>(null);
  const name = useId();
  useEffect(() => {
    const { activeElement } = document;
    box.current?.showModal();
    return () => {
      if (activeElement instanceof HTMLElement && activeElement.isConnected) activeElement.focus();
      else document.getElementById("main")?.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      aria-labelledby={name}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        confirm?.();
      }}
    >
      <div class="title">
        <h2 id={name}>{title}</h2>
        <button type="button" class="plain" onClick={close} aria-label="Close" title="Close (Esc)">
          <Icon name="close" />
        </button>
      </div>
      {children}
    </dialog>
  );
}
