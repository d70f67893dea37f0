-- What scripts see of Lua. Run once in a new state, with what Rust provides; returns the sets of globals.
-- Read-only tables are empty stand-ins: their metatable reads from the real table and refuses writes.
local native, libraries = ...

local type, error, select, tostring = type, error, select, tostring
local rawget, setmetatable, raw_getmetatable = rawget, setmetatable, getmetatable
local raw_pcall, raw_xpcall, raw_pairs = pcall, xpcall, pairs
local raw_loadstring, sub, concat, raw_sort =
  loadstring, string.sub, table.concat, table.sort
local raw_resume, raw_create = coroutine.resume, coroutine.create
local caught, guard, stands_for, through = native.caught, native.guard, native.stands_for, native.through

local function refuse()
  error("Attempt to modify a readonly table", 2)
end

local function missing(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

-- A stand-in for `real`; what `real` lacks is looked for with `index`.
local function readonly(real, index)
  local shown_meta = false
  if index then
    setmetatable(real, { __index = index })
    local shown = { __index = index }
    shown_meta = setmetatable({}, { __index = shown, __newindex = refuse, __metatable = false })
    stands_for(shown_meta, shown)
  end
  local stand_in = setmetatable({}, { __index = real, __newindex = refuse, __metatable = shown_meta })
  stands_for(stand_in, real)
  return stand_in
end

-- What a protected call returned; an error that came from Rust becomes what scripts know.
local function outcome(ok, ...)
  if not ok and type(...) == "userdata" then
    return false, caught(...)
  end
  return ok, ...
end

-- As Redis has it: of an error table, the text.
local function pcall_outcome(ok, ...)
  if ok then
    return ok, ...
  end
  local err = ...
  if type(err) == "userdata" then
    err = caught(err)
  end
  if type(err) == "table" then
    local text = rawget(err, "err")
    if type(text) == "string" or type(text) == "number" then
      return false, text
    end
  end
  return false, err
end

local function pcall(...)
  if select("#", ...) == 0 then
    return
  end
  return pcall_outcome(raw_pcall(...))
end

local function guarded(ok, ...)
  if not ok then
    guard()
  end
  return ok, ...
end

local function xpcall(...)
  local f, handler = ...
  if select("#", ...) < 2 then
    return native.expected("xpcall", "value expected", 2)
  end
  local function translate(err)
    if type(err) == "userdata" then
      err = caught(err)
    end
    return handler(err)
  end
  return guarded(raw_xpcall(f, translate))
end

local function resume(thread, ...)
  if type(thread) ~= "thread" then
    return native.expected("resume", "coroutine expected")
  end
  return outcome(raw_resume(thread, ...))
end

local function wrap_outcome(ok, ...)
  if ok then
    return ...
  end
  error((...), 3)
end

local function wrap(f)
  if type(f) ~= "function" then
    return native.expected("wrap", "Lua function expected")
  end
  local thread = raw_create(f)
  return function(...)
    return wrap_outcome(outcome(raw_resume(thread, ...)))
  end
end

local next = through("next", next, false)

local function sort(t, ...)
  local comparator = ...
  if type(t) ~= "table" or comparator ~= nil and type(comparator) ~= "function" then
    return native.sort(t, comparator)
  end
  return raw_sort(native.changeable(t), ...)
end

local function loadstring(code, ...)
  if type(code) == "string" and sub(code, 1, 1) == "\27" then
    return nil, "attempt to load a binary chunk"
  end
  return raw_loadstring(code, ...)
end

local function load(reader, name)
  if type(reader) ~= "function" then
    return native.load(reader)
  end
  local pieces = {}
  while true do
    local ok, piece = outcome(raw_pcall(reader))
    if not ok then
      return nil, piece
    elseif piece == nil or piece == "" then
      return loadstring(concat(pieces), name or "=(load)")
    elseif type(piece) ~= "string" then
      return nil, "reader function must return a string"
    end
    pieces[#pieces + 1] = piece
  end
end

math.random, math.randomseed = native.random, native.randomseed
coroutine.resume, coroutine.wrap = resume, wrap
table.insert, table.sort = native.insert(table.insert), sort
for _, name in ipairs { "remove", "setn" } do
  table[name] = through(name, table[name], true)
end
for _, name in ipairs { "foreach", "foreachi" } do
  local raw = table[name]
  table[name] = function(t, ...)
    return raw(native.readable(t), ...)
  end
end

for _, name in ipairs { "find", "match", "gmatch", "gfind", "gsub" } do
  string[name] = native.matching(name, string[name])
end

local base = {
  pcall = pcall, xpcall = xpcall, pairs = native.pairs(next, raw_pairs), next = next, loadstring = loadstring,
  load = load, getmetatable = native.getmetatable, rawget = through("rawget", rawget, false),
  rawset = through("rawset", rawset, true), setmetatable = through("setmetatable", setmetatable, true),
  __redis__err__handler = native.handler,
}
for _, name in ipairs {
  "assert", "collectgarbage", "error", "gcinfo", "ipairs", "rawequal", "select", "tonumber", "tostring", "type",
  "unpack", "_VERSION",
} do
  base[name] = _G[name]
end
for name, library in raw_pairs(libraries) do
  base[name] = readonly(library)
end
base.string, base.table, base.math = readonly(string), readonly(table), readonly(math)
base.coroutine, base.os = readonly(coroutine), readonly { clock = native.clock }

raw_getmetatable("").__metatable = readonly { __index = base.string }

local function globals_with(redis)
  local real = { redis = redis }
  for name, value in raw_pairs(base) do
    real[name] = value
  end
  local stand_in = readonly(real, missing)
  real._G = stand_in
  return stand_in, real
end

-- For EVAL: the real table is where KEYS and ARGV are put.
local eval_globals, eval_real = globals_with(readonly(native.eval_api))
-- For functions: while a library is loaded, its globals are only what it may use then.
local function_globals, function_real = globals_with(readonly(native.function_api))
local load_real = setmetatable({ redis = readonly(native.load_api, missing) }, { __index = missing })

local handler = native.handler

local function run_code(f)
  return raw_xpcall(f, handler)
end

local function run_script(f, keys, argv)
  eval_real.KEYS, eval_real.ARGV = keys, argv
  return raw_xpcall(f, handler)
end

local function run_function(f, keys, argv)
  return raw_xpcall(function()
    return f(keys, argv)
  end, handler)
end

return eval_globals, function_globals, function_real, load_real, run_code, run_script, run_function
