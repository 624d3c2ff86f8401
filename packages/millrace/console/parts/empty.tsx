import type { ComponentChildren } from "preact";

/** What stands where there is nothing: why, and the command that would fill it. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command && <pre>{command}</pre>}
    </div>
  );
}
