/** `node dist/contract/emit-openapi.js > openapi/management-v1.openapi.yaml`: writes the OpenAPI document to stdout. */
import { openapiYaml } from './openapi.ts'

process.stdout.write(openapiYaml())
