import { useState } from "preact/hooks";

export function shortId(id: string): string {
  return id.length > 16 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id;
}

export function withoutIds(sentence: string): string {
  return sentence.replaceAll(/\b[0-9a-f]{32}\b/g, shortId);
}

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

export async function copied(text: string): Promise<boolean> {
  return navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  );
}
