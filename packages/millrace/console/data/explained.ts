import { useEffect, useState } from "preact/hooks";

export interface Explained {
  code: string;
  title: string;
  means: string;
  next: string;
}

let asked: Promise<ReadonlyMap<string, Explained>> | undefined;

async function read(): Promise<ReadonlyMap<string, Explained>> {
  const answer = await fetch("/problems", { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error(`The answer was ${answer.status}.`);
  const { items } = (await answer.json()) as { items: Explained[] };
  return new Map(items.map((one) => [one.code, one]));
}

/**
 * Returns the explanations of error codes. They are loaded once per page load, at the first use. The result is empty if the request fails.
 */
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
