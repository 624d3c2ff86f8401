import * as z from "zod";

/** As ranges and without a flag: OpenAPI documents and clients in other languages take it as it is. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it refuses
const NO_CONTROL_CHARACTERS = /^[^\u0000-\u001f\u007f-\u009f]*$/;

/** A dot or two stand in an address for a folder, however they are written there: nothing of this name could be asked for. */
const DOTS_ALONE: readonly string[] = [".", ".."];
export const NO_ADDRESS = "must be more than a dot or two, which no address can name";

export function isDotsAlone(name: string): boolean {
  return DOTS_ALONE.includes(name);
}

/** A name that somebody else chose and that we keep and show: bounded, without control characters, and fit for a part of an address. */
export function chosenName(max: number) {
  return z
    .string()
    .min(1)
    .max(max)
    .regex(NO_CONTROL_CHARACTERS, "must not contain control characters")
    .refine((name) => !isDotsAlone(name), NO_ADDRESS);
}

/** Whether a name can be seen: spaces and marks that only direct others, alone, are nobody's name to whoever reads it. */
export function isVisible(name: string): boolean {
  return /[^\p{Cc}\p{Cf}\p{Z}]/u.test(name);
}
