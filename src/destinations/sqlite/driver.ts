import type { DriverModule, SqliteSpec } from '../driver.ts'
export const sqlite: DriverModule<SqliteSpec> = { open() { throw new Error('x') }, check: async () => [] }
