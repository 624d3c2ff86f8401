/** What neither HTML nor XML may hold: control characters but tab and line ends, and what is no character at all. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufffe\uffff]/g;

/** Text without what no document may hold. */
export function printable(text: string): string {
  return text.toWellFormed().replaceAll(FORBIDDEN, "");
}

/** Text as the content or the quoted attribute of an HTML or XML element. */
export function escaped(text: string): string {
  return printable(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
