declare module "*?raw" {
  const text: string;
  export default text;
}

interface ImportMeta {
  /** Vite's function: every file that a pattern matches, read when the test is built. */
  glob<Content>(pattern: string, options: { query: string; import: string; eager: true }): Record<string, Content>;
}
