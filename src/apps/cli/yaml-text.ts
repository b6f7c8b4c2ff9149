/** YAML as a command prints it. */
import { type Document, Scalar, visit } from 'yaml'
import { actsOnTerminal, printableJson } from '../client/printable.ts'

/**
 * On a terminal what would act on it stands as escapes, which YAML knows in double quotes alone: text that has such
 * characters is put into them. The same value is read from either form.
 */
export function yamlText(document: Document, onTerminal: boolean): string {
  if (!onTerminal) return document.toString({ lineWidth: 0 })
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value === 'string' && actsOnTerminal(node.value)) node.type = Scalar.QUOTE_DOUBLE
    },
  })
  // Escapes are written in JSON's way in both.
  return printableJson(document.toString({ lineWidth: 0 }))
}
