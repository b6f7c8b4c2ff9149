/** Names in the SQL of SQLite. Every identifier in a statement goes through `quoteSqliteIdentifier`. */
import { DeliveryError } from '../driver.ts'
import { identifierFault } from '../sql/identifiers.ts'

/** Throws a permanent `invalid_name` for a name that a mapping cannot have. */
export function quoteSqliteIdentifier(name: string): string {
  const fault = identifierFault('sqlite', name)
  if (fault) throw new DeliveryError('permanent', 'invalid_name', `The name "${name}" ${fault}.`)
  return `"${name.replaceAll('"', '""')}"`
}
