/** Characters that neither HTML nor XML may contain: control characters except tab and line ends, and noncharacters. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufffe\uffff]/g;

/** Removes characters that no document may contain. */
export function printable(text: string): string {
  return text.toWellFormed().replaceAll(FORBIDDEN, "");
}

/** Escapes a text as the content or the quoted attribute of an HTML or XML element. */
export function escaped(text: string): string {
  return printable(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
