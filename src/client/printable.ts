/**
 * Text of others (error messages of destinations, descriptions, records) made harmless for a terminal: control
 * characters, which could move the cursor or retitle the window, become visible.
 */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, (character) =>
    character === '\n' || character === '\t' ? ' ' : '\u{fffd}',
  )
}
