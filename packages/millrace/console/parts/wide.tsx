import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import "./wide.css";

/** A picture is made smaller down to this, so that it fits; beyond it, it is scrolled. */
const SMALLEST = 0.7;

interface WideProps {
  /** What is seen in it, for whoever hears it. */
  label: string;
  class?: string;
  /** The width that the picture has by itself, in pixels. */
  width: number;
  /** Draws it, so many times as large as it is by itself. */
  children: (scale: number) => ComponentChildren;
}

/** A picture that fits where it can, and is otherwise scrolled, by keys too: an edge behind which there is more fades out. */
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
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be scrolled by keys */}
      <section ref={box} class={`wide ${name}`} tabIndex={0} aria-label={label} data-more={more || undefined} onScroll={look}>
        {children(scale)}
      </section>
      {scale === 1 && fit < 1 && <p class="quiet wider">Wider than this window: scroll sideways, with ← and → when it has the focus.</p>}
    </>
  );
}
