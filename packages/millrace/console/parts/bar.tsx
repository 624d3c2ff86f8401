import type { ComponentChildren } from "preact";

/** A number on a bar as long as its share, from 0 to 1: what the bar shows, the number says. */
export function Bar({ share, children }: { share: number; children: ComponentChildren }) {
  return (
    <span class="bar" style={{ "--share": Math.max(0, Math.min(1, share)) }}>
      {children}
    </span>
  );
}
