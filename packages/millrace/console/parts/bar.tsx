import type { ComponentChildren } from "preact";

export function Bar({ share, children }: { share: number; children: ComponentChildren }) {
  return (
    <span class="bar" style={{ "--share": Math.max(0, Math.min(1, share)) }}>
      {children}
    </span>
  );
}
