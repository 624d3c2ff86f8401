/**
 * Encodes a free text as one part of a key with "/" between its parts, so that two neighbouring parts cannot run into each other and make
 * two jobs one. A text without "/" is unchanged, so that the keys of earlier jobs remain valid. Two different texts never give the same
 * part of a key.
 */
export function keyPart(text: string): string {
  return /\/|%2F|%25/.test(text) ? encoded(text) : text;
}

/** Encodes only ambiguous characters of a text, because a key is limited to 500 characters. */
function encoded(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("/", "%2F");
}
