/** The built-in forms of an article. Each is a section of the prompt file. */
export const TEMPLATES = ["article", "guide", "news", "list"] as const;
export type Template = (typeof TEMPLATES)[number];

/** What a brand wants of its articles. */
export interface Style {
  template: Template;
  /** A text of the operator's; empty for none. */
  instructions: string;
}

export const DEFAULT_STYLE: Style = { template: "article", instructions: "" };

/** Longest instructions, in characters. */
export const MAX_INSTRUCTIONS = 2000;
