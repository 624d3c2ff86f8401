import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import "./wide.css";

/** The minimum scale of a picture. A picture that is too wide at this scale can be scrolled. */
const SMALLEST = 0.7;

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
  const [more, setMore] = useState("");
  const fit = room > 0 && width > 0 ? room / width : 1;
  const scale = fit >= 1 ? 1 : fit >= SMALLEST ? fit : 1;
  const look = () => {
    const { scrollLeft = 0, scrollWidth = 0, clientWidth = 0 } = box.current ?? {};
    setMore([scrollLeft > 1 && "left", scrollLeft + clientWidth < scrollWidth - 1 && "right"].filter(Boolean).join(" "));
  };
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
      <section ref={box} class={`wide ${name}`} tabIndex={0} aria-label={label} data-more={more || undefined} onScroll={look}>
        {children(scale)}
      </section>
      {scale === 1 && fit < 1 && <p class="quiet wider">Wider than this window: scroll sideways, with ← and → when it has the focus.</p>}
    </>
  );
}
