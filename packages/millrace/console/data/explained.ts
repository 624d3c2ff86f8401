import { useEffect, useState } from "preact/hooks";

/** What a code means, as the engine explains it to people. */
export interface Explained {
  code: string;
  title: string;
  means: string;
  /** What to do next. */
  next: string;
}

let asked: Promise<ReadonlyMap<string, Explained>> | undefined;

async function read(): Promise<ReadonlyMap<string, Explained>> {
  const answer = await fetch("/problems", { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error(`The answer was ${answer.status}.`);
  const { items } = (await answer.json()) as { items: Explained[] };
  return new Map(items.map((one) => [one.code, one]));
}

/** The sentences of some codes: asked for once for the page, when the first is needed; none where nobody explains them. */
export function useExplained(): ReadonlyMap<string, Explained> {
  const [known, know] = useState<ReadonlyMap<string, Explained>>(new Map());
  useEffect(() => {
    asked ??= read();
    asked.then(know, () => {
      asked = undefined;
    });
  }, []);
  return known;
}
