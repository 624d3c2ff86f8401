import { useEffect, useState } from "preact/hooks";

/** A shared value. When the value changes, the components that use it are rendered again. */
export interface Cell<T> {
  get(): T;
  set(value: T): void;
  listen(hear: (value: T) => void): () => void;
}

export function cell<T>(value: T): Cell<T> {
  let held = value;
  const hearers = new Set<(value: T) => void>();
  return {
    get: () => held,
    set(next) {
      if (Object.is(held, next)) return;
      held = next;
      for (const hear of [...hearers]) hear(next);
    },
    listen(hear) {
      hearers.add(hear);
      return () => void hearers.delete(hear);
    },
  };
}

/** Subscribes a component to a part of a cell. The component is rendered again only if this part of the cell changes. */
export function useCell<T, Shown = T>(from: Cell<T>, pick: (value: T) => Shown = (value) => value as unknown as Shown): Shown {
  const [, draw] = useState({});
  const shown = pick(from.get());
  useEffect(() => {
    let last = shown;
    const look = () => {
      const next = pick(from.get());
      if (Object.is(last, next)) return;
      last = next;
      draw({});
    };
    // The cell's value may have changed between the render and the effect.
    look();
    return from.listen(look);
  }, [from, shown]);
  return shown;
}
