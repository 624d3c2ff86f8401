import * as z from "zod";

/** The pattern uses ranges and no flag, so that OpenAPI documents and clients in other languages can use the pattern. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the refused characters
const NO_CONTROL_CHARACTERS = /^[^\u0000-\u001f\u007f-\u009f]*$/;

/** In a URL path "." and ".." are folders, even when percent-encoded, so no request could address an object with such a name. */
const DOTS_ALONE: readonly string[] = [".", ".."];
export const NO_ADDRESS = 'must not be "." or "..", which a URL path cannot contain';

export function isDotsAlone(name: string): boolean {
  return DOTS_ALONE.includes(name);
}

/** Maximum length of an idempotency key. */
export const MAX_KEY_CHARACTERS = 500;

/** A name chosen by a caller: bounded, without control characters, and valid as a part of a URL. */
export function chosenName(max: number) {
  return z
    .string()
    .min(1)
    .max(max)
    .regex(NO_CONTROL_CHARACTERS, "must not contain control characters")
    .refine((name) => !isDotsAlone(name), NO_ADDRESS);
}

/** False for a name of only spaces, control and formatting characters, which displays as empty. */
export function isVisible(name: string): boolean {
  return /[^\p{Cc}\p{Cf}\p{Z}]/u.test(name);
}
