-- Decides everything, and answers.
local count = #alone / 2
for key = 1, count do
  settle_alone(key, rules[alone[key * 2 - 1]], alone[key * 2])
end
if #requests > 0 then settle_connected(count) end

found[#KEYS + 1] = now
for i = 1, #told do found[#KEYS + 1 + i] = told[i] end
return found
