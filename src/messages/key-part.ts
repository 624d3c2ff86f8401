/**
 * A text of somebody's own as a part of a key whose parts have "/" between them. Of two neighbours that may hold a "/" one has to be such a
 * part: they would run into each other, and two jobs would be one. Any text without a "/" stays as it is, so that the keys of work that was
 * done stay too; of two texts that differ, the parts do.
 */
export function keyPart(text: string): string {
  return /\/|%2F|%25/.test(text) ? encoded(text) : text;
}

/** Only what could be mistaken: a key has 500 characters. */
function encoded(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("/", "%2F");
}
