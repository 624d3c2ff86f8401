declare module "*?raw" {
  const text: string;
  export default text;
}

interface ImportMeta {
  /** Vite's: every file that a pattern names, read when the test is built. */
  glob<Content>(pattern: string, options: { query: string; import: string; eager: true }): Record<string, Content>;
}
