import { useState } from "preact/hooks";

/** An id shortened in the middle, of which both ends tell it from others. */
export function shortId(id: string): string {
  return id.length > 16 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id;
}

/** A sentence with the ids in it shortened: whoever wants one whole finds it where its thing is. */
export function withoutIds(sentence: string): string {
  return sentence.replaceAll(/\b[0-9a-f]{32}\b/g, shortId);
}

/** An id, shortened where it is shown and whole where it is copied. */
export function Id({ id }: { id: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    setCopied(await copied(id));
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button type="button" class="plain id" title={`${id}: copy it`} onClick={copy}>
      <code>{shortId(id)}</code>
      <span role="status">{isCopied ? " copied" : ""}</span>
    </button>
  );
}

/** Copies a text, where the browser lets it. */
export async function copied(text: string): Promise<boolean> {
  return navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  );
}
