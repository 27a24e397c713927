#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

// a value as it was read
struct json_value {
    enum class kind { null, boolean, number, string, array, object };

    kind type = kind::null;

    double      number = 0.0; // of a boolean: 0 or 1
    std::string text;

    std::vector<json_value>           items;
    std::map<std::string, json_value> members;

    // the member of that name, or nullptr
    const json_value * find(const std::string & name) const;

    // the member's number or boolean, or the default where it is not there; throws std::invalid_argument on others
    double get(const std::string & name, double def) const;
};

// throws std::invalid_argument with the place where it is no JSON
json_value json_parse(const std::string & text);

// text to JSON: a string with its quotes, a number (null where JSON has none), a list of what is JSON already
std::string json_string(const std::string & text);
std::string json_number(double value);
std::string json_list(const std::vector<std::string> & items);

// an object, written as it goes
class json_object {
public:
    json_object & raw(const std::string & name, const std::string & json);

    json_object & add(const std::string & name, const std::string & value) { return raw(name, json_string(value)); }
    json_object & add(const std::string & name, const char * value) { return raw(name, json_string(value)); }
    json_object & add(const std::string & name, bool value) { return raw(name, value ? "true" : "false"); }
    json_object & add(const std::string & name, int32_t value) { return raw(name, std::to_string(value)); }
    json_object & add(const std::string & name, double value) { return raw(name, json_number(value)); }

    std::string text() const { return "{" + members + "}"; }

private:
    std::string members;
};
