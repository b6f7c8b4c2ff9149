/** A value that its column cannot hold unchanged. The message goes after "cannot store the value unchanged:". */
export class ColumnValueError extends Error {}
