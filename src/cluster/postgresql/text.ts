/**
 * PostgreSQL takes every character in a text but U+0000, which JSON allows in a description or the name of a field. It is
 * stored as two others, so that every text comes back as it was given and two texts are equal when they were.
 */

const nul = '\u0000'
/** A noncharacter: no text of people has it; one that has it is escaped too. */
const mark = '\u{10FFFE}'

export function textToStore(value: unknown): unknown {
  if (typeof value !== 'string' || !(value.includes(nul) || value.includes(mark))) return value
  return value.replaceAll(mark, `${mark}1`).replaceAll(nul, `${mark}0`)
}

export function storedText(value: string): string {
  if (!value.includes(mark)) return value
  return value.replaceAll(`${mark}0`, nul).replaceAll(`${mark}1`, mark)
}
