/** The OpenAPI document, as it is published (spec "Versioning"). */
import type { Route } from './route.ts'

/** `document`: the YAML text. */
export function openApiRoute(document: Buffer): Route {
  return {
    method: 'GET',
    path: '/openapi/management-v1.openapi.yaml',
    operationId: 'getOpenApi',
    auth: 'none',
    handler: async () => ({
      status: 200,
      body: document,
      headers: { 'Content-Type': 'application/yaml; charset=utf-8' },
    }),
  }
}
