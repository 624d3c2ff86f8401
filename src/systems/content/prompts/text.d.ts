/** Wrangler bundles prompts as text: `rules` in wrangler.jsonc. */
declare module "*.md" {
  const text: string;
  export default text;
}
