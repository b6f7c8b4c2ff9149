/** Blocks of one section of a guide, for tests that run them elsewhere than in the walker: in a Debian of their own, for example. */
import { readFileSync } from 'node:fs'
import { blocksOf } from './guide-walker.ts'

/** `file`: from the root of the project. The texts of the section's blocks, in their order, also of its sub-sections. */
export function sectionBlocks(file: string, heading: string): string[] {
  const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
  const [, section] = new RegExp(`\\n## ${heading}\\n([\\s\\S]*?)(?:\\n## |$)`).exec(text) ?? []
  if (section === undefined) throw new Error(`${file} has no section ${heading}`)
  return blocksOf(section).map(({ text: block }) => block)
}

/** As root runs them, without `sudo`, which a small Debian does not have. */
export function rootBlocks(guide: string, heading: string): string[] {
  return sectionBlocks(`docs/${guide}.md`, heading).map((block) => block.replaceAll(/^sudo /gm, ''))
}
