/** The OpenAPI document (docs/dev/contract.md#versioning): emitted from the contract, committed, and sound. */
import { readFileSync } from 'node:fs'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import t from 'tap'
import { parse } from 'yaml'
import { errorCatalogue } from '../../src/contract/errors.ts'
import { openapiDocument, openapiYaml } from '../../src/contract/openapi.ts'
import { operations } from '../../src/contract/operations.ts'
import { shapeFaults } from '../../src/contract/validate.ts'

const file = new URL('../../openapi/management-v1.openapi.yaml', import.meta.url)

t.test('the committed document is what the contract emits', async (t) => {
  t.ok(
    readFileSync(file, 'utf8') === openapiYaml(),
    'regenerate it: node dist/contract/emit-openapi.js > openapi/management-v1.openapi.yaml',
  )
})

t.test('it is OpenAPI 3.0.3, version 1.0.0, marked beta', async (t) => {
  const document = parse(openapiYaml())
  t.equal(document.openapi, '3.0.3')
  t.equal(document.info.version, '1.0.0')
  t.equal(document.info['x-beta'], true)
  t.match(document.info.description, /^Beta/)
})

/** Everything `@redocly/openapi-core` finds, errors and warnings alike. Health cannot go wrong on the caller's side. */
async function problemsIn(source: string): Promise<string[]> {
  const config = await createConfig({
    extends: ['recommended'],
    rules: { 'operation-4xx-response': 'off' },
  })
  const problems = await lintFromString({ source, absoluteRef: 'management-v1.openapi.yaml', config })
  return problems.map((problem) => `${problem.ruleId}: ${problem.message} ${problem.location[0]?.pointer}`)
}

t.test('a public validator finds nothing wrong with it', async (t) => {
  t.same(await problemsIn(openapiYaml()), [])
})

t.test('negative control: the validator sees what 3.0.3 does not have', async (t) => {
  const broken = openapiYaml().replace('nullable: true', 'const: 1')
  t.not(broken, openapiYaml())
  t.not((await problemsIn(broken)).length, 0)
})

t.test('every operation of the route table is in it, with every error code it answers', async (t) => {
  const document = parse(openapiYaml())
  for (const operation of operations) {
    const found = document.paths[operation.path]?.[operation.method.toLowerCase()]
    t.equal(found?.operationId, operation.operationId)
    t.ok(found.responses[operation.success.status], `${operation.operationId} answers its success`)
    for (const code of operation.errors) {
      const response = found.responses[errorCatalogue[code].status]
      const listed = JSON.stringify(response.$ref ? document.components.responses[code] : response)
      t.ok(listed.includes(`"${code}"`), `${operation.operationId} names ${code}`)
    }
  }
})

t.test('an operation without a key says so, all others need one', async (t) => {
  const document = parse(openapiYaml())
  for (const { path, method, auth, operationId } of operations) {
    const { security } = document.paths[path][method.toLowerCase()]
    const expected = { none: [], key: undefined, pipe: [{ apiKey: [] }, {}] }[auth]
    t.same(security, expected, operationId)
  }
})

t.test('every success schema asks for something: an empty body fits none of them', async (t) => {
  const asking = operations.flatMap(({ operationId, success }) =>
    'schema' in success ? [{ operationId, schema: success.schema }] : [],
  )
  t.ok(asking.length >= 18)
  for (const { operationId, schema } of asking)
    t.not(Object.keys(shapeFaults(schema, {})).length, 0, `${operationId} refuses {}`)
})

t.test('3.0.3 knows neither const nor type null: the document has none', async (t) => {
  const found: string[] = []
  const walk = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null) return
    if ('const' in value && typeof value.const !== 'object') found.push(`${path}/const`)
    if ('type' in value && value.type === 'null') found.push(`${path}/type`)
    for (const [key, inner] of Object.entries(value)) walk(inner, `${path}/${key}`)
  }
  walk(openapiDocument(), '')
  t.same(found, [])
})
