/** The option `--where key=value` of several commands. */
import { conditionIn, type RecordCondition } from '../../contract/record-condition.ts'
import { usageFailure } from '../client/failure.ts'

/** Throws Failure (usage). */
export function requireCondition(where: string): RecordCondition {
  const condition = conditionIn(where)
  if (condition !== null) return condition
  throw usageFailure(
    `--where must be KEY=VALUE, not ${JSON.stringify(where)}`,
    'for instance --where status=paid, or --where customer.country=AT for a key inside an object',
  )
}
