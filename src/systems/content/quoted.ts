/**
 * A value as one line of JSON for a prompt. Line breaks and angle brackets are escaped, so its text cannot start a new line or close the
 * surrounding block.
 */
export function quotedJson(value: unknown): string {
  return JSON.stringify(value)
    .replaceAll("<", "\\u003c")
    .replaceAll(">", "\\u003e")
    .replaceAll("\u2028", "\\u2028")
    .replaceAll("\u2029", "\\u2029");
}

/** A source for a prompt. */
export function quoted({ title, url, description }: { title: string; url: string; description: string }): string {
  return quotedJson({ title, url, description });
}

export function line(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}
