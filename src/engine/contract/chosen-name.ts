import * as z from "zod";

/** As ranges and without a flag: OpenAPI documents and clients in other languages take it as it is. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it refuses
const NO_CONTROL_CHARACTERS = /^[^\u0000-\u001f\u007f-\u009f]*$/;

/** A name that somebody else chose and that we keep and show: bounded, without control characters. */
export function chosenName(max: number) {
  return z.string().min(1).max(max).regex(NO_CONTROL_CHARACTERS, "must not contain control characters");
}

/** Whether a name can be seen: spaces and marks that only direct others, alone, are nobody's name to whoever reads it. */
export function isVisible(name: string): boolean {
  return /[^\p{Cc}\p{Cf}\p{Z}]/u.test(name);
}
