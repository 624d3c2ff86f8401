import * as z from "zod";
import { isVisible } from "../contract/chosen-name.ts";

/** Every action of an operator says why: it is what the audit shows. */
const reason = z
  .string()
  .trim()
  .min(1)
  .max(500)
  .refine(isVisible, "must contain a visible character")
  .meta({ description: "The reason, kept in the audit." });
export const reasoned = z.strictObject({ reason });

/** What any request with a body may be refused for, whatever it asks. */
export const BODY_REFUSALS = [
  "invalid_json",
  "unauthorized",
  "forbidden",
  "payload_too_large",
  "unsupported_media_type",
  "invalid_payload",
] as const;
