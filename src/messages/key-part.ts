/**
 * Encodes any text as one part of a key whose parts are separated by "/". Without the encoding, the keys of two different jobs could be
 * equal. A text without "/", "%2F" and "%25" is unchanged, so that the keys of earlier jobs remain valid. Two different texts never give
 * the same part of a key.
 */
export function keyPart(text: string): string {
  return /\/|%2F|%25/.test(text) ? encoded(text) : text;
}

/** Encodes only the ambiguous characters of a text, because encoding lengthens the key and a key has at most 500 characters. */
function encoded(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("/", "%2F");
}
