import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { contactBookOf } from "../objects/contact-books.ts";
import { needs } from "./auth.ts";
import { chosenName } from "./chosen-name.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problem.ts";
import { answers } from "./responses.ts";

const ContactSchema = z
  .object({
    contact_id: z.string(),
    canonical_id: z.string().openapi({ description: "The contact it is known as; itself, if nobody merged it into another." }),
    merged: z.array(z.string()).openapi({ description: "Every other contact that is known as that one, by name; the first 1,000." }),
    merged_count: z.int(),
  })
  .openapi("Contact");

const show = createRoute({
  method: "get",
  path: "/v1/contacts/{id}",
  summary: "Say as whom a contact is known",
  description: "Follows from the `contact_merged` facts that have arrived. A contact nobody has heard of is its own.",
  ...needs("read"),
  request: { params: z.object({ id: chosenName(200) }) },
  responses: {
    200: answers("The contact", ContactSchema),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

export function contacts() {
  return new OpenAPIHono<ApiEnv>().openapi(show, async ({ env, req, var: { caller }, json }) =>
    json(await contactBookOf(env, caller.tenantId).contact(req.valid("param").id), 200),
  );
}
