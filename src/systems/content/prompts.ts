import { MillraceError } from "millrace";
import { type Prompt, readPrompt } from "./prompt-file.ts";
import articleV1 from "./prompts/article.v1.md";
import articleV2 from "./prompts/article.v2.md";
import articleV3 from "./prompts/article.v3.md";
import synthesisV1 from "./prompts/synthesis.v1.md";

/** All released prompts. Old prompts remain, because an instance continues with the prompt with which the instance began. */
const PROMPTS: readonly Prompt[] = [articleV1, articleV2, articleV3, synthesisV1].map(readPrompt);

/** The id of the prompt for new articles. */
export const ARTICLE_PROMPT = newest("article").id;

/** The id of the prompt for new syntheses. */
export const SYNTHESIS_PROMPT = newest("synthesis").id;

/** Returns the prompt with this id. Errors: `config_invalid` if the prompt was removed although an instance still uses the prompt. */
export function promptOf(id: string): Prompt {
  const found = PROMPTS.find((prompt) => prompt.id === id);
  if (!found)
    throw new MillraceError(
      "config_invalid",
      `There is no prompt ${id}: put its file back into src/systems/content/prompts, deploy, then retry.`,
    );
  return found;
}

function newest(name: string): Prompt {
  const [first, ...others] = PROMPTS.filter((prompt) => prompt.name === name);
  if (!first) throw new MillraceError("config_invalid", `There is no prompt named ${name}.`);
  return others.reduce((best, prompt) => (prompt.version > best.version ? prompt : best), first);
}
