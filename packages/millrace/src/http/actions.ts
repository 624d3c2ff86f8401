import * as z from "zod";
import { isVisible } from "../contract/chosen-name.ts";

/** Body of every operator action: the reason, which the audit stores. */
const reason = z
  .string()
  .trim()
  .min(1)
  .max(500)
  .refine(isVisible, "must contain a visible character")
  .meta({ description: "The reason, kept in the audit." });
export const reasoned = z.strictObject({ reason });

/** Problems that any request with a body can return. */
export const BODY_REFUSALS = [
  "invalid_json",
  "unauthorized",
  "forbidden",
  "payload_too_large",
  "unsupported_media_type",
  "invalid_payload",
] as const;
