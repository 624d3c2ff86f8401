declare module "openapi-sampler" {
  /** An example of a schema. `document` has the schemas that the schema refers to. */
  export function sample(schema: object, options: { skipNonRequired?: boolean; quiet?: boolean }, document: object): unknown;
}
