import type { ComponentChildren } from "preact";

export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command && <pre>{command}</pre>}
    </div>
  );
}
