import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import "./wide.css";

/** The minimum scale of a picture. A picture that is too wide at this scale can be scrolled. */
const SMALLEST = 0.7;

/** Marks the sides on which a box can be scrolled to more content. The mark is on the box, or on another element. */
export function markEdges(box: HTMLElement | null, marked: HTMLElement | null | undefined = box): void {
  if (!box || !marked) return;
  const { scrollLeft, scrollWidth, clientWidth } = box;
  marked.dataset.more = [scrollLeft > 1 && "left", scrollLeft + clientWidth < scrollWidth - 1 && "right"].filter(Boolean).join(" ");
}

interface WideProps {
  label: string;
  class?: string;
  width: number;
  children: (scale: number) => ComponentChildren;
}

/**
 * Shows a picture that is scaled to the available width. If the picture is too wide, it can be scrolled, also with keys, and its edge
 * fades.
 */
export function Wide({ label, class: name = "", width, children }: WideProps) {
  const box = useRef<HTMLElement>(null);
  const [room, setRoom] = useState(0);
  const fit = room > 0 && width > 0 ? room / width : 1;
  const scale = fit >= SMALLEST && fit < 1 ? fit : 1;
  const look = () => markEdges(box.current);
  useEffect(() => {
    if (!box.current) return;
    const watch = new ResizeObserver(([entry]) => setRoom(entry?.contentRect.width ?? 0));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  useEffect(look, [room, width, scale]);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content needs keyboard access */}
      <section ref={box} class={`wide ${name}`} tabIndex={0} aria-label={label} onScroll={look}>
        {children(scale)}
      </section>
      {scale === 1 && fit < 1 && <p class="quiet wider">Wider than this window: scroll sideways, with ← and → when it has the focus.</p>}
    </>
  );
}
