/** The check that no operation and no error code goes untested: it has to see each kind of gap. */
import t from 'tap'
import { type ErrorCode, errorCatalogue } from '../../src/contract/errors.ts'
import { operationTable } from '../../src/contract/operations.ts'
import { catalogueGaps } from '../support/catalogue-gaps.ts'
import { type Observation, operationAt } from '../support/observations.ts'

const complete: Observation[] = [
  ...operationTable.flatMap((operation) => [
    { operationId: operation.operationId, status: operation.success.status, code: '-' },
    ...Object.keys(operation.otherResponses ?? {}).map((status) => ({
      operationId: operation.operationId,
      status: Number(status),
      code: '-',
    })),
    ...operation.errors
      .filter((code) => code !== 'server_error')
      .map((code) => ({
        operationId: operation.operationId,
        status: errorCatalogue[code].status,
        code,
      })),
  ]),
  // Errors of checks before every operation, or of the dashboard only: no operation lists them.
  ...(Object.keys(errorCatalogue) as ErrorCode[]).map((code) => ({
    operationId: '-',
    status: errorCatalogue[code].status,
    code,
  })),
]
const without = (drop: (seen: Observation) => boolean) =>
  catalogueGaps(complete.filter((seen) => !drop(seen)))

t.test('a run that saw everything has no gap', async (t) => {
  t.same(catalogueGaps(complete), [])
})

t.test('an operation never answered with success is a gap', async (t) => {
  t.same(
    without((seen) => seen.operationId === 'putLimits' && seen.code === '-'),
    ['putLimits never answered 200'],
  )
})

t.test('an error code that an operation lists and never gave is a gap', async (t) => {
  t.same(
    without((seen) => seen.operationId === 'getPipe' && seen.code === 'pipe_not_found'),
    ['getPipe never answered pipe_not_found'],
  )
})

t.test('an error code seen nowhere is a gap', async (t) => {
  t.same(
    without((seen) => seen.code === 'method_not_allowed'),
    ['no answer was ever method_not_allowed'],
  )
})

t.test('a 500 of an operation is a gap, whatever the catalogue lists', async (t) => {
  const seen = { operationId: 'testDestination', status: 500, code: 'server_error' }
  t.match(catalogueGaps([...complete, seen]), ['testDestination answered 500 server_error: a bug'])
})

t.test('a response that the catalogue does not list is a gap', async (t) => {
  t.same(catalogueGaps([...complete, { operationId: 'listPipes', status: 409, code: 'duplicate_origin' }]), [
    'listPipes answered 409 duplicate_origin, which the catalogue does not list',
  ])
})

t.test('a request is known by its method and path; a literal segment wins over a parameter', async (t) => {
  t.equal(operationAt('POST', '/v1/pipes/x/destinations/test'), 'testDestination')
  t.equal(operationAt('GET', '/v1/pipes/x/destinations/y'), 'getDestination')
  t.equal(operationAt('OPTIONS', '/v1/ingest/x'), 'ingestPreflight')
  t.equal(operationAt('GET', '/v1/nothing'), null)
})
