/** Which part of the catalogue a run of the tests has not exercised. */
import { type ErrorCode, errorCatalogue } from '../../src/contract/errors.ts'
import { operationTable } from '../../src/contract/operations.ts'
import type { Observation } from './observations.ts'

/**
 * One sentence for each gap: an operation whose success was never seen, an error code never seen, a code that an
 * operation lists but never gave, and an answer that the catalogue does not know for its operation.
 */
export function catalogueGaps(observations: readonly Observation[]): string[] {
  const seen = new Set(
    observations.map(({ operationId, status, code }) => `${operationId} ${status} ${code}`),
  )
  const codesSeen = new Set(observations.map(({ code }) => code))
  const gaps: string[] = []
  for (const operation of operationTable) {
    const { operationId, success } = operation
    if (!seen.has(`${operationId} ${success.status} -`))
      gaps.push(`${operationId} never answered ${success.status}`)
    for (const status of Object.keys(operation.otherResponses ?? {}))
      if (!seen.has(`${operationId} ${status} -`)) gaps.push(`${operationId} never answered ${status}`)
    for (const code of operation.errors)
      if (!everywhere.has(code) && !seen.has(`${operationId} ${errorCatalogue[code].status} ${code}`))
        gaps.push(`${operationId} never answered ${code}`)
  }
  for (const code of Object.keys(errorCatalogue))
    if (!codesSeen.has(code)) gaps.push(`no answer was ever ${code}`)
  return [...gaps, ...serverErrors(observations), ...unknownAnswers(observations)]
}

/** Given by what stands before every operation, not by the operation: seen once anywhere is enough. */
const everywhere = new Set<ErrorCode>([
  'server_error',
  'payload_too_large',
  'storage_unavailable',
  'too_many_requests',
])
/** Codes that no operation lists because they are about the request's path, method or framing. */
const unlisted = new Set<string>([
  'not_found',
  'method_not_allowed',
  'bad_request',
  'headers_too_large',
  'payload_too_large',
])

/** At an operation it is a bug of ours, wherever it is seen. (`configuration_error`, the spec's other 500, is not.) */
function serverErrors(observations: readonly Observation[]): string[] {
  const found = observations.filter(({ operationId, code }) => operationId !== '-' && code === 'server_error')
  return [...new Set(found.map(({ operationId }) => `${operationId} answered 500 server_error: a bug`))]
}

function unknownAnswers(observations: readonly Observation[]): string[] {
  const gaps = new Set<string>()
  for (const { operationId, status, code } of observations) {
    const operation = operationTable.find((known) => known.operationId === operationId)
    if (operation === undefined || unlisted.has(code)) continue
    const isSuccess =
      code === '-' && (status === operation.success.status || operation.otherResponses?.[status])
    const isError = operation.errors.some(
      (known) => known === code && errorCatalogue[known].status === status,
    )
    if (!isSuccess && !isError)
      gaps.add(`${operationId} answered ${status} ${code}, which the catalogue does not list`)
  }
  return [...gaps]
}
