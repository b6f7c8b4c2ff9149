/** Formats YAML for output. */
import { type Document, Scalar, visit } from 'yaml'
import { actsOnTerminal, printableJson } from '../client/printable.ts'

/**
 * On a terminal, control characters become escapes, which YAML supports only in double quotes. Texts with such
 * characters are therefore quoted. Both forms have the same value.
 */
export function yamlText(document: Document, onTerminal: boolean): string {
  if (!onTerminal) return document.toString({ lineWidth: 0 })
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value === 'string' && actsOnTerminal(node.value)) node.type = Scalar.QUOTE_DOUBLE
    },
  })
  // JSON escapes are valid in both forms.
  return printableJson(document.toString({ lineWidth: 0 }))
}
