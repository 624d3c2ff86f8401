import * as z from "zod";

export const timestamp = z.iso.datetime().meta({ example: "2026-10-01T09:30:00.000Z" });

/** The engine counts milliseconds; the API uses ISO 8601. */
export function iso(at: number): string {
  return new Date(at).toISOString();
}

export function isoOrNull(at: number | null): string | null {
  return at === null ? null : iso(at);
}
