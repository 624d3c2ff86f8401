/** The built-in kinds of articles. The prompt file has a section for each kind. */
export const TEMPLATES = ["article", "guide", "news", "list"] as const;
export type Template = (typeof TEMPLATES)[number];

/** The settings of a brand for the text of its articles. */
export interface Style {
  template: Template;
  /** The operator's instructions for the text; empty for none. */
  instructions: string;
}

export const DEFAULT_STYLE: Style = { template: "article", instructions: "" };

/** Maximum length of the instructions, in characters. */
export const MAX_INSTRUCTIONS = 2000;
