import type { ComponentChildren } from "preact";

/** An empty state: the reason, and a command that adds data. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command && <pre>{command}</pre>}
    </div>
  );
}
